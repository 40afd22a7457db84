-- A delivery's event is there until the delivery is deleted: the queue refers to it, the move to the history is one
-- transaction, and retention deletes only events that neither table has. So the history need not check each row again.
ALTER TABLE delivery_history DROP CONSTRAINT delivery_event_id_fkey;
