"""One file per `advscene` command: a frozen dataclass whose fields are the options.

Modules here import nothing heavy at the top, so that `advscene --help` answers at once.
"""
