DROP TABLE context_counts;
DROP TABLE stubs;
DROP TABLE compactions;
