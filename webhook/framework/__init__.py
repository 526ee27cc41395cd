"""The interface of units (injectors and rules), and code that several of them share."""
