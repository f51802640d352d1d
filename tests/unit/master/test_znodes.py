"""The message about a znode that cannot be read as a region in transition."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from walferry.base.zk.client import ZNode
from walferry.base.zk.errors import ZNodeValueError
from walferry.master.znodes import decode_region


@pytest.mark.parametrize("value", [b"", b"junk", b"PBUF\xff"])
def test_the_advice_for_a_broken_znode_is_about_its_region(value: bytes) -> None:
    with pytest.raises(ZNodeValueError, match=r"Nothing is done for this region.*delete the znode while no master is running"):
        decode_region(ZNode(value, SimpleNamespace()), f"/hbase/region-in-transition/{1:032x}")
