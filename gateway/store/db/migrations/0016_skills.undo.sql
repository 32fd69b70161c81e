DROP TABLE skill_proposals;
