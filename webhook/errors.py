"""Every error this program raises on purpose.

    GpuAdmissionError
    ├── BadReview        what was sent is not a v1 AdmissionReview we can answer: HTTP 400
    │   └── BadPod       …because the pod in it has not the shape of a pod
    ├── BadInput         a file given to the command line cannot be used: exit status 2
    ├── PolicyError      a policy does not parse: the last good one stays
    ├── QuantityError    a resource quantity that Kubernetes would not parse either
    ├── CertificateError a key pair that must not be served: the old one stays
    └── ApiError         the API server refused, or could not be reached: it is asked again

Each message says what was seen, what was wanted, where, and what to do next.
"""

from __future__ import annotations


class GpuAdmissionError(Exception):
    """Base of all errors raised on purpose; anything else is a bug of ours."""


class BadReview(GpuAdmissionError):
    """The body is not a v1 AdmissionReview that can be answered."""


class BadPod(BadReview):
    """The object in the review has not the shape of a pod."""


class BadInput(GpuAdmissionError):
    """A file or argument of the command line cannot be used."""


class PolicyError(GpuAdmissionError):
    """A policy does not parse. `problems`: one line each, with path and line number."""

    def __init__(self, problems: list[str]) -> None:
        super().__init__("\n".join(problems))
        self.problems = problems


class QuantityError(GpuAdmissionError, ValueError):
    """Not a Kubernetes quantity."""


class CertificateError(GpuAdmissionError):
    """A certificate and key that must not be served."""


class ApiError(GpuAdmissionError):
    """The API server refused a request, or could not be reached. `status` is that of HTTP; 0 where there was none."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status
