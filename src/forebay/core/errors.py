"""Every error that Forebay tells a caller about.

One tree. Each class has a stable `type` (the last part of its RFC 9457 problem type), an HTTP status and a title; each
instance says what was wrong (`detail`), where (`param`) and, where waiting helps, how long (`retry_after_s`, seconds).
"""

from collections.abc import Mapping
from typing import ClassVar


class ForebayError(Exception):
    """Root of the tree. Only its subclasses are raised.

    `should_retry` says what a client's automatic retry should do, where that is known better than by the status;
    `members` are further members of the problem, `headers` further headers of the response that tells of it.
    """

    type: ClassVar[str]
    status: ClassVar[int]
    title: ClassVar[str]

    def __init__(
        self,
        detail: str,
        *,
        param: str | None = None,
        retry_after_s: float | None = None,
        should_retry: bool | None = None,
        members: Mapping[str, object] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(detail)
        self.detail = detail
        self.param = param
        self.retry_after_s = retry_after_s
        self.should_retry = should_retry
        self.members = members or {}
        self.headers = headers or {}


class InvalidRequest(ForebayError):
    """A field is missing, of the wrong type, out of range or not supported."""

    type = "invalid-request"
    status = 400
    title = "Invalid request"


class MalformedJson(ForebayError):
    """The body is not JSON; the detail gives the position."""

    type = "malformed-json"
    status = 400
    title = "Malformed JSON"


class ContextTooLong(ForebayError):
    """Prompt plus max_tokens exceeds the model's context window."""

    type = "context-too-long"
    status = 400
    title = "Context too long"


class InvalidApiKey(ForebayError):
    """No API key, or one that is not known."""

    type = "invalid-api-key"
    status = 401
    title = "Invalid API key"


class BudgetExhausted(ForebayError):
    """The month's budget of a quota does not cover the request."""

    type = "budget-exhausted"
    status = 402
    title = "Budget exhausted"


class PermissionDenied(ForebayError):
    """The key is known but may not do this."""

    type = "permission-denied"
    status = 403
    title = "Permission denied"


class ModelNotFound(ForebayError):
    """No such model, or none that this key may call."""

    type = "model-not-found"
    status = 404
    title = "Model not found"


class ResourceNotFound(ForebayError):
    """Nothing of that kind has that id."""

    type = "resource-not-found"
    status = 404
    title = "Resource not found"


class RouteNotFound(ForebayError):
    """No such path."""

    type = "not-found"
    status = 404
    title = "Not found"


class MethodNotAllowed(ForebayError):
    """The path exists, the method does not."""

    type = "method-not-allowed"
    status = 405
    title = "Method not allowed"


class RequestTimeout(ForebayError):
    """The request's body did not arrive in time."""

    type = "request-timeout"
    status = 408
    title = "Request timeout"


class Conflict(ForebayError):
    """What is asked for does not go together with what is there; the detail says with what."""

    type = "conflict"
    status = 409
    title = "Conflict"


class RequestRepeated(ForebayError):
    """A request with this `Idempotency-Key` came before; it runs once."""

    type = "request-repeated"
    status = 409
    title = "Request repeated"


class PreconditionFailed(ForebayError):
    """The resource is not in the state that `If-Match` names: someone else has changed it."""

    type = "precondition-failed"
    status = 412
    title = "Precondition failed"


class BodyTooLarge(ForebayError):
    """The body is larger than the server takes."""

    type = "body-too-large"
    status = 413
    title = "Request body too large"


class UnsupportedMediaType(ForebayError):
    """The body is not declared as JSON."""

    type = "unsupported-media-type"
    status = 415
    title = "Unsupported media type"


class TokenRateExceeded(ForebayError):
    """A quota's tokens per minute do not cover the request now."""

    type = "token-rate-exceeded"
    status = 429
    title = "Token rate exceeded"


class RequestRateExceeded(ForebayError):
    """A quota's requests per minute are used up for now."""

    type = "request-rate-exceeded"
    status = 429
    title = "Request rate exceeded"


class ConcurrencyExceeded(ForebayError):
    """As many requests as a quota allows at once are running."""

    type = "concurrency-exceeded"
    status = 429
    title = "Concurrency exceeded"


class InternalError(ForebayError):
    """A fault of ours; the detail names the request, never its content."""

    type = "internal-error"
    status = 500
    title = "Internal error"


class UpstreamFailed(ForebayError):
    """A replica broke off, or answered what cannot be understood."""

    type = "upstream-failed"
    status = 502
    title = "Model replica failed"


class CapacityUnavailable(ForebayError):
    """Nothing can take the request now; try again after `retry_after_s`."""

    type = "capacity-unavailable"
    status = 503
    title = "Capacity unavailable"


class StoreUnavailable(ForebayError):
    """A store of the platform cannot be reached or written, so that what needs it is not done."""

    type = "store-unavailable"
    status = 503
    title = "Store unavailable"


class DeadlineExceeded(ForebayError):
    """The deadline passed before the first token."""

    type = "deadline-exceeded"
    status = 504
    title = "Deadline exceeded"


class ConfigurationError(ForebayError):
    """A setting is wrong; the detail names the setting, its source and what would be right."""

    type = "configuration-error"
    status = 500
    title = "Configuration error"


class ModelFileError(ForebayError):
    """A model cannot be loaded; the detail names the file or architecture and what would work."""

    type = "model-file-error"
    status = 500
    title = "Model cannot be loaded"


class UnsupportedMachine(ForebayError):
    """This machine cannot run the embedded engine; the detail names the way out."""

    type = "unsupported-machine"
    status = 500
    title = "Machine cannot run the embedded engine"
