def check(d): pass
