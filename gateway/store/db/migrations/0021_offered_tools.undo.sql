DROP TABLE offered_tools;
