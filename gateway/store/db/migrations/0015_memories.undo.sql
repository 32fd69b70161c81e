DROP TABLE memory_looks;
DROP TRIGGER memories_search_delete;
DROP TRIGGER memories_search_insert;
DROP TABLE memories_search;
DROP TABLE memories;
