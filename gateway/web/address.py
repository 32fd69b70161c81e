"""The address of the chat page, for those who print it; needs no web server."""


def page_address(host: str, port: int) -> str:
    """Return where a browser on this machine finds the page."""
    name = "127.0.0.1" if host in ("0.0.0.0", "::") else host  # noqa: S104 - told apart, not bound
    return f"http://{f'[{name}]' if ':' in name else name}:{port}/"


def login_address(host: str, port: int, token: str) -> str:
    """Return the address that signs one browser in."""
    return f"{page_address(host, port)}?token={token}"
