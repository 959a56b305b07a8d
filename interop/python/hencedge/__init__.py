"""A decoder of hencedge's formats, written from docs/ alone. Standard library only."""


class Refused(Exception):
    """An object that must not be taken; reason is the class that the documents name."""

    def __init__(self, reason, why):
        super().__init__(f"{reason}: {why}")
        self.reason = reason
