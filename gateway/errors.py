"""Errors, named by what their catcher must do.

GatewayError
├── PlatformUnavailable   supervisor and delivery: try again (after `retry_after` if given)
├── PlatformAuthFailed    supervisor: stop this platform and ask the operator
├── DeliveryRejected      delivery: give this message up, say why in the trail
├── DeliveryInDoubt       delivery: it may have arrived; find out, never blindly resend
├── MediaUnavailable      responder: tell the model and go on without the file
├── CommandRefused        the terminal: show it; a script's exit code is 1
├── GatewayStopping       platforms: not taken; do not confirm, it will be offered again
├── StoreUnavailable      whoever wrote: nothing was written; do not confirm, try again
├── StoreCorrupt          nobody: leave, the next start repairs
├── StoreTooNew           the start: stop with this message
├── UpgradeFailed         the start: stop with this message; nothing was changed
└── AlreadyRunning        the start: stop with this message
"""


class GatewayError(Exception):
    """The text of every gateway error is written for the person who will read it."""


class PlatformUnavailable(GatewayError):
    def __init__(self, message: str, *, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class PlatformAuthFailed(GatewayError):
    pass


class DeliveryRejected(GatewayError):
    pass


class DeliveryInDoubt(GatewayError):
    pass


class MediaUnavailable(GatewayError):
    pass


class CommandRefused(GatewayError):
    pass


class GatewayStopping(GatewayError):
    pass


class StoreUnavailable(GatewayError):
    pass


class StoreCorrupt(GatewayError):
    pass


class StoreTooNew(GatewayError):
    pass


class UpgradeFailed(GatewayError):
    pass


class AlreadyRunning(GatewayError):
    pass
