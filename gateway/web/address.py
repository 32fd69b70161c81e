"""Addresses of the chat page. Apart from the server, so that the CLI can print them without loading it."""


def page_address(host: str, port: int) -> str:
    """Return the address of the page for a browser on this machine."""
    name = "127.0.0.1" if host in ("0.0.0.0", "::") else host  # noqa: S104 - compared, not bound
    return f"http://{f'[{name}]' if ':' in name else name}:{port}/"


def login_address(host: str, port: int, token: str) -> str:
    """Return the address that signs one browser in."""
    return f"{page_address(host, port)}?token={token}"
