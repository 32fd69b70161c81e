DROP TABLE direct_calls;
DROP TABLE undone;
