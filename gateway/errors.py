"""Errors, named by what their catcher must do.

GatewayError
├── PlatformUnavailable   supervisor and delivery: try again (after `retry_after` if given)
├── PlatformAuthFailed    supervisor: stop this platform and ask the operator
├── DeliveryRejected      delivery: give up on this message, record why in the trail
├── DeliveryInDoubt       delivery: it may have arrived; find out, never resend blindly
├── MediaUnavailable      responder: tell the model and go on without the file
├── CommandRefused        the terminal: show it and exit with code 1
├── GatewayStopping       platforms: not accepted; do not confirm, it will be delivered again
├── StoreUnavailable      the writer: nothing was written; do not confirm, try again
├── StoreCorrupt          nobody: exit, the next start repairs it
├── StoreTooNew           the start: stop with this message
├── UpgradeFailed         the start: stop with this message; nothing was changed
└── AlreadyRunning        the start: stop with this message
"""


class GatewayError(Exception):
    """Base of the gateway's errors. The text is written for the person who will read it."""


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
