"""The screens of `pid-quota top`: a list of principals, and one principal in detail."""

from collections.abc import Callable
from datetime import datetime
from typing import Any, ClassVar

from rich.text import Text
from textual import work
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.content import Content
from textual.screen import Screen
from textual.widgets import DataTable, Footer, Input, Static

from jobs.output.terminal import OUR_ERRORS, one_line, printable
from jobs.top.screen import COLUMNS, cells, detail_view, summary, warning_text
from tables.query.freshness import STALE_AFTER_S, Freshness, read_freshness
from tables.query.top_rows import SORTS, TopRow, arranged, read_detail, read_diagnoses, read_rows

_DIAGNOSES_EVERY = 15
"""The app diagnoses clients once in this many refreshes, because a diagnosis reads a day of requests."""


class PrincipalList(DataTable[Text]):
    """The list of principals, with a key binding for the footer."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("enter", "select_cursor", "details")]


class TopApp(App[None]):
    """The application. A worker thread reads the tables."""

    ENABLE_COMMAND_PALETTE = False
    CSS = """
    #status { height: 1; text-style: bold; }
    #stale { height: 2; background: $warning; color: $text-warning; text-style: bold; display: none; }
    #stale.shown { display: block; }
    PrincipalList { height: 1fr; border-bottom: solid $primary; }
    Input { height: 1; border: none; display: none; }
    Input.shown { display: block; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("q", "quit", "quit"),
        # Without this binding, Textual would only show a hint, and an input field would copy its text.
        Binding("ctrl+c", "quit", show=False, priority=True),
        Binding("s", "sort", "sort"),
        Binding("slash", "filter", "filter"),
        Binding("escape", "clear", "all", show=False),
    ]

    def __init__(
        self,
        tables: str,
        *,
        clock: Callable[[], datetime],
        seconds: float,
        sort: str = "used",
        text: str = "",
        principal: str | None = None,
        limit: int = 1000,
        stale_seconds: float = STALE_AFTER_S,
    ) -> None:
        super().__init__()
        self.tables, self.clock, self.seconds = tables, clock, seconds
        self.sort, self.text, self._principal, self._limit = sort, text, principal, limit
        self._stale_seconds = stale_seconds
        self.rows: list[TopRow] = []
        self.freshness = Freshness(None, clock(), stale_seconds)
        self._shown: list[TopRow] = []
        self._diagnoses: dict[str, str] = {}
        self._looks = 0

    def compose(self) -> ComposeResult:
        """Compose the screen."""
        yield Static(id="stale")
        yield Static(id="status")
        yield Input(self.text, placeholder="part of a name", compact=True)
        yield PrincipalList(cursor_type="row", cell_padding=0, zebra_stripes=True)
        yield Footer()

    def on_mount(self) -> None:
        """Start refreshing."""
        table = self.query_one(PrincipalList)
        for column in COLUMNS:
            table.add_column(column.aligned(column.name), width=column.width + 1, key=column.name)
        table.focus()
        self.look()
        self.set_interval(self.seconds, self.look)
        if self._principal is not None:
            self.push_screen(DetailScreen(self._principal))

    @work(thread=True, exclusive=False, group="rows")
    def look(self) -> None:
        """Read the tables, unless a read is running."""
        if sum(worker.group == "rows" and worker.is_running for worker in self.workers) > 1:
            return
        now = self.clock()
        try:
            rows = read_rows(self.tables, now)
            self.freshness = read_freshness(self.tables, now, self._stale_seconds)
            if self._looks % _DIAGNOSES_EVERY == 0:
                self._diagnoses = read_diagnoses(self.tables, now)
        except OUR_ERRORS as error:
            self.call_from_thread(self.show_status, one_line(str(error)))
            return
        self._looks += 1
        self.rows = [row.diagnosed(self._diagnoses) for row in rows]
        self.call_from_thread(self.show_rows)

    def show_status(self, text: str) -> None:
        """Show a line above the table, unless the app is ending."""
        if self.screen_stack:
            self.screen_stack[0].query_one("#status", Static).update(printable(text))

    def show_rows(self) -> None:
        """Sort, filter and show the rows. The cursor stays on the same principal."""
        if not self.screen_stack:
            # The app is ending.
            return
        table = self.screen_stack[0].query_one(PrincipalList)
        chosen, at = self.chosen, table.cursor_row
        found = arranged(self.rows, self.sort, self.text)
        self._shown = found[: self._limit]
        # Give long names the rest of a wide terminal.
        others = sum(column.width + 1 for column in COLUMNS[1:])
        table.ordered_columns[0].width = max(COLUMNS[0].width + 1, table.size.width - others)
        table.clear()
        for row in self._shown:
            # A name that is longer than its column takes a second line.
            is_long = len(row.principal) > table.ordered_columns[0].width - 1
            table.add_row(*cells(row), height=None if is_long else 1)
        names = [row.principal for row in self._shown]
        where = names.index(chosen.principal) if chosen and chosen.principal in names else at
        table.move_cursor(row=min(where, max(0, len(names) - 1)), animate=False)
        filtered = f", {len(found):,} with {self.text}" if self.text else ""
        self.show_status(summary(self.rows, self.freshness))
        banner = self.screen_stack[0].query_one("#stale", Static)
        banner.update(warning_text(self.freshness))
        banner.set_class(self.freshness.is_stale, "shown")
        table.border_subtitle = Content(f"by {self.sort}{filtered}")

    @property
    def chosen(self) -> TopRow | None:
        """The row under the cursor."""
        at = self.screen_stack[0].query_one(PrincipalList).cursor_row
        return self._shown[at] if 0 <= at < len(self._shown) else None

    def check_action(self, action: str, _parameters: tuple[object, ...]) -> bool | None:
        """Disable the list's actions on other screens."""
        return action not in ("sort", "filter", "clear") or self.screen is self.screen_stack[0]

    def action_sort(self) -> None:
        """Switch to the next sort order."""
        names = list(SORTS)
        self.sort = names[(names.index(self.sort) + 1) % len(names)]
        self.show_rows()

    def action_filter(self) -> None:
        """Open the filter."""
        field = self.query_one(Input)
        field.add_class("shown")
        field.focus()

    def action_clear(self) -> None:
        """Clear the filter."""
        field = self.query_one(Input)
        field.value = ""
        field.remove_class("shown")
        self.query_one(PrincipalList).focus()

    def on_input_changed(self, event: Input.Changed) -> None:
        """Filter the rows."""
        self.text = event.value
        self.show_rows()

    def on_input_submitted(self) -> None:
        """Hide the filter, and focus the rows."""
        self.query_one(Input).remove_class("shown")
        self.query_one(PrincipalList).focus()

    def on_data_table_row_selected(self) -> None:
        """Show the selected principal in detail."""
        if self.chosen:
            self.push_screen(DetailScreen(self.chosen.principal))


class DetailScreen(Screen[None]):
    """One principal in detail."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,backspace", "app.pop_screen", "back"),
        Binding("q", "app.quit", "quit"),
    ]
    app: TopApp

    def __init__(self, principal: str) -> None:
        super().__init__()
        self._principal = principal

    def compose(self) -> ComposeResult:
        """Compose the screen."""
        with VerticalScroll():
            yield Static("reading…", id="detail")
        yield Footer()

    def on_mount(self) -> None:
        """Start refreshing."""
        self.look()
        self.set_interval(self.app.seconds, self.look)

    @work(thread=True, exclusive=False, group="detail")
    def look(self) -> None:
        """Read the tables, unless a read is running."""
        app: Any = self.app
        if sum(worker.group == "detail" and worker.is_running for worker in app.workers) > 1:
            return
        try:
            detail = read_detail(app.tables, self._principal, app.clock())
        except OUR_ERRORS as error:
            app.call_from_thread(self.show, printable(one_line(str(error))))
            return
        app.call_from_thread(self.show, detail_view(detail, app.freshness))

    def show(self, what: Any) -> None:
        """Show the content."""
        if self.is_mounted:
            self.query_one("#detail", Static).update(what)
