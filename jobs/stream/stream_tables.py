"""Creates a stream's tables, unless its checkpoint shows that they existed and are gone."""

from quota.config import QuotaConfig
from streaming.checkpoint.table_ids import require_same
from tables.store.base import TableStore
from tables.store.values import StreamSettings


def prepare_tables(store: TableStore, checkpoint: str, config: QuotaConfig, *, new_tables: bool) -> None:
    """Create missing tables, unless the checkpoint shows that they existed, and store the stream's settings."""
    require_same(store, checkpoint, new_tables=new_tables)
    store.create()
    store.write_settings(StreamSettings(config.window_seconds, config.burst_windows))
