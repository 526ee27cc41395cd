"""The process that serves the webhook: start and end, HTTP, bytes in and bytes out."""
