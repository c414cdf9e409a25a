"""Every fenced block of the README and of docs/ is run, or says why it is not."""
