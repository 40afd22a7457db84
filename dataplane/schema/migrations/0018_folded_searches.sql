-- How far the searched texts of a table are folded that a version of before has written; a table that has no row here is done.
CREATE TABLE unfolded (
    of_table TEXT PRIMARY KEY,
    after_id TEXT NOT NULL
);
INSERT INTO unfolded (of_table, after_id) VALUES ('web_order', ''), ('work_order', '');
