"""Files that come in: what they really are, what can be read in them, and the words for what cannot."""
