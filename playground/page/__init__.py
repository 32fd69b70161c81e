"""One page with three phones, a gateway to play with, and everything that happens inside it."""
