"""The server process: start and stop, connections, HTTP, and the handlers of the two webhooks."""
