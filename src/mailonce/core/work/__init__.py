"""Work that is leased: its states, retries, breakers and fair shares.

Rule: Nothing here knows what the work is: a rule and the outcome of an attempt are enough.
Imports: nothing of ours.
"""
