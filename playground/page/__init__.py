"""The page of `hermes playground`: three phones, a gateway, and a view of its state."""
