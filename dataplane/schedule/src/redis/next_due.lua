-- Returns the milliseconds, or -1: there is nothing.
refresh()
return next_due() or -1
