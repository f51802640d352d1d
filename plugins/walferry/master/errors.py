"""Errors about regions in transition. Each names the region, its state and its server, and says what to do."""

from walferry.base.errors import WalferryError


class RoleHeld(WalferryError):
    """Another run acts as the cluster's master."""

    def __init__(self, holder: str, since: str) -> None:
        super().__init__(
            f"{holder} acts as the cluster's master since {since}",
            "Wait until it has ended. A run of region_master does not end by itself: pause that DAG, mark its run as failed, "
            "act, and unpause the DAG",
        )


class RoleLost(WalferryError):
    """This run does not act as the cluster's master any more."""

    def __init__(self, why: str) -> None:
        super().__init__(
            f"this run no longer acts as the cluster's master: {why}",
            "What it has begun is written in ZooKeeper; the next run goes on from there",
        )


class LiveMaster(WalferryError):
    """An HMaster is active."""

    def __init__(self, master: str, znode: str) -> None:
        super().__init__(
            f"HMaster {master} is active, as {znode} says, and nothing is done beside it",
            "Use HBase's shell. If the HMaster hangs in its initialization, use `regions unstick`, or stop it first. After a "
            "crash its znode goes with its session",
        )


class NoLiveMaster(WalferryError):
    """The HMaster next to which an operator acts is gone."""

    def __init__(self, znode: str) -> None:
        problem = f"{znode} is not an HMaster's any more, so nothing waits for what was to be written"
        super().__init__(problem, "Look again, and decide anew")


class ClockAhead(WalferryError):
    """This process would act by a time that is still in the future."""

    retry_helps = False

    def __init__(self, seconds: float, allowed: float) -> None:
        super().__init__(
            f"this machine's clock is {seconds:,.0f} s ahead of ZooKeeper's; at most {allowed:g} s are allowed",
            "Set the clocks of both. By a wrong clock, servers at work would seem to be stuck, and hbase:meta would hide where "
            "an HMaster moves regions later",
        )


class NotHBase1(WalferryError):
    """The cluster does not move its regions through ZooKeeper."""

    retry_helps = False

    def __init__(self, server: str, version: str) -> None:
        super().__init__(
            f"{server} is HBase {version}, which does not move regions through ZooKeeper; nothing was done",
            "HBase 2 has HBCK2 for its regions",
        )


class Refused(WalferryError):
    """An operator asked for an action that is not possible now."""

    retry_helps = False


class NotReady(WalferryError):
    """Starting the cluster would still be dangerous."""


class NotSettled(WalferryError):
    """An action did not finish in time."""


class NoClusterId(WalferryError):
    """The cluster's id is neither in ZooKeeper nor in its files."""

    retry_helps = False

    def __init__(self, url: str, reason: str) -> None:
        super().__init__(
            f"{url}: {reason}", "ZooKeeper does not have the cluster's id either. Check that this is the cluster's hbase.rootdir"
        )


class WrongFiles(WalferryError):
    """A root folder belongs to another cluster."""

    retry_helps = False

    def __init__(self, url: str, found: str, znode: str, expected: str) -> None:
        super().__init__(
            f"{url}: these are the files of cluster {found}, but {znode} says {expected}; nothing was done",
            "Set wal_root in the connection's extra to that of this ZooKeeper's cluster",
        )


class IllegitimateTransition(WalferryError):
    """The table in `transitions` does not contain this transition."""

    retry_helps = False


class StateChanged(WalferryError):
    """A region's znode has changed since the decision was made."""

    def __init__(self, region: str, transition: str) -> None:
        super().__init__(
            f"region {region}: {transition} was not written, because the region's znode has changed since it was read",
            "The next look at the region decides anew",
        )


class WrongTableState(WalferryError):
    """A table is in a state from which it cannot go to the wanted one."""

    retry_helps = False

    def __init__(self, table: str, state: str, wanted: str) -> None:
        super().__init__(f"table {table} is {state}, so it cannot become {wanted}", "Wait until the table is enabled or disabled")


class TableStateChanged(WalferryError):
    """A table's state has changed since the decision was made."""

    def __init__(self, table: str, state: str) -> None:
        problem = f"table {table} did not become {state}: its state has changed since it was read"
        super().__init__(problem, "The next pass looks again")


class SplitFailed(WalferryError):
    """A dead server's WALs could not be split."""
