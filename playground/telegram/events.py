"""The log of events, for those who look for it here."""

from playground.events import EventLog as EventLog
