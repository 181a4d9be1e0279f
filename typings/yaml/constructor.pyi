from yaml import Mark, YAMLError

class ConstructorError(YAMLError):
    def __init__(
        self, context: str | None, context_mark: Mark | None, problem: str | None, problem_mark: Mark | None
    ) -> None: ...
