DROP TABLE spending;
