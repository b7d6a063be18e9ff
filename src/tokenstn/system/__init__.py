"""Where the package meets the operating system: files, signals, processes. Imports no other room."""
