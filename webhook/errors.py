"""The errors that this program raises on purpose. A message says what was seen, what was wanted, where, and what to do next."""


class GpuAdmissionError(Exception):
    """Base class of all errors raised on purpose. Any other exception is a bug."""


class BadReview(GpuAdmissionError):
    """The body is not an AdmissionReview v1 that can be answered: HTTP 400."""


class BadPod(BadReview):
    """A pod has a field of the wrong type."""


class BadInput(GpuAdmissionError):
    """A file or option of the command line cannot be used: exit status 2."""


class PolicyError(GpuAdmissionError):
    """A policy cannot be parsed: the last good one stays in force. `problems`: one line for each, with path and line number.
    `later`: the version of this program that it was written for, if that is later."""

    def __init__(self, problems: list[str], later: str = "") -> None:
        super().__init__("\n".join(problems))
        self.problems, self.later = problems, later


class QuantityError(GpuAdmissionError, ValueError):
    """A value is not a Kubernetes quantity: the API server would refuse it too."""


class CertificateError(GpuAdmissionError):
    """A certificate and its key must not be served: the old pair is kept."""


class ApiError(GpuAdmissionError):
    """The API server refused a request or could not be reached. `status`: the HTTP status, 0 without an answer. `reason`: what it
    said, not shortened, up to 4 kB of any characters.
    """

    def __init__(self, status: int, message: str, reason: str = "") -> None:
        super().__init__(message)
        self.status = status
        self.reason = reason


class NotRead(GpuAdmissionError):
    """A part of an expression that selects devices is not evaluated here, or has no value: Kubernetes decides."""
