"""Wrong answers to the unit `tiny`."""


# %% whole-division
# belief: Half of a number is
#   a whole number.
# advice: What does 7 // 2 leave out?
# replaces: halve
# caught by: half of an odd number
def halve(number):
    return number // 2


# %% doubles
# belief: To halve is to divide by a half.
# advice: Try it on 4.
# replaces: halve
# caught by: half of an even number
def halve(number):
    return number / 0.5
