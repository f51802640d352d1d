"""A peer that is being handed back is removed when the hand-back ends, or if its backlog is given up."""

from __future__ import annotations

import pytest

from tests.zk.handing_back_site import NEW, Site, site
from walferry.admin.handing_back import finish_hand_back
from walferry.admin.peers import Refused
from walferry.admin.removing import remove
from walferry.replication.peers.reading import ENABLED

__all__ = ["site"]  # a fixture


def test_ours_is_not_removed_otherwise_unless_its_backlog_is_given_up(site: Site, caplog: pytest.LogCaptureFixture) -> None:
    admin = site.begin_shipped()
    with pytest.raises(Refused, match=r"peer p is being handed back to n\. `.* hand-back p --to n --finish` removes it"):
        remove(admin, "p")
    remove(admin, "p", drop_backlog=True)
    assert "peer n was to succeed it: `walferry peers hand-back p --to n --finish` enables that one" in caplog.text
    finish_hand_back(admin, "p", NEW)
    assert site.master.state_of(NEW) == ENABLED
