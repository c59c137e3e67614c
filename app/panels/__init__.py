"""The viewer's tabs and docks, one file each; they show a Session and post commands to it."""
