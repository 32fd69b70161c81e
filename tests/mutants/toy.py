"""A module with a line that is tested and one that is not, for the tests of this tool."""


def is_older(one: int, other: int) -> bool:
    return one > other


def together(one: int, other: int) -> int:
    return one + other
