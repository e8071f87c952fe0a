"""PlanError: what is wrong with a plan, its options or its place, as one line for the user."""


class PlanError(Exception):
    pass
