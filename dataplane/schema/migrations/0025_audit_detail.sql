-- Which settings of a webhook changed, or the name of a webhook that was removed: at most 256 characters. NULL: the event needs no detail, or a program of before stored it.
ALTER TABLE audit ADD COLUMN detail TEXT;
