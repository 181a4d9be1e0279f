"""A command class that refuses what click would take silently: an option given twice, and an empty value.

Of two values, click keeps the last one. An empty value comes from a shell variable that is not set:
`--tables "$TABLES"` would write to the current folder.

Several values in an environment variable are separated by semicolons, as in Kafka's `super.users`: names of users
contain commas and blanks.
"""

from collections import Counter
from typing import Any

import typer
from typer.core import TyperCommand


class OnceCommand(TyperCommand):
    """A typer command whose options have a value, and appear at most once unless they are declared as repeatable."""

    def __init__(self, *args: Any, **settings: Any) -> None:
        super().__init__(*args, **settings)
        for parameter in self.params:
            repeatable: Any = parameter
            repeatable.envvar_list_splitter = ";"

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the arguments. Raise BadParameter if an option that takes one value has two, or an empty one."""
        values, _, given = self.make_parser(ctx).parse_args(args=list(args))
        for parameter, count in Counter(given).items():
            is_once = parameter.param_type_name == "option" and not parameter.multiple
            # Half a command line, which a shell completes, may be anything.
            if count > 1 and is_once and not ctx.resilient_parsing:
                msg = f"{parameter.opts[0]} appears {count} times, and only one value would count: give it once"
                raise typer.BadParameter(msg)
            if is_once and str(values.get(parameter.name, "-")).strip() == "" and not ctx.resilient_parsing:
                msg = f"{parameter.opts[0]} is empty: give a value, or leave the option out"
                raise typer.BadParameter(msg)
        return super().parse_args(ctx, args)
