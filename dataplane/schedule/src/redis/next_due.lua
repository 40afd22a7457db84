-- Returns the milliseconds until the next claim can succeed, or -1: there is no entry to wait for.
refresh()
return next_due() or -1
