"""The one error that users see."""


class InputError(ValueError):
    """Bad input from a person: a file, an option or a click that cannot be used.

    The message is one sentence that says what was wanted, what was found and what to do; the
    command line prints it and exits with code 2, the viewer shows it where it happened.
    """
