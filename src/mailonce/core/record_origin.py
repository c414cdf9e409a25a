"""Where the settings of a source, route or sender come from."""

API = "api"
FILE = "file"
APP = "app"
# A secret that stands in the file is changed there.
SEALED_BY_FILE = "file, and its secret"
OF_FILE = (FILE, SEALED_BY_FILE)
# Why a record is off that the file no longer has; whoever changes it then, or switches it on,
# owns it.
NOT_IN_FILE = "it is no longer in the settings file"
