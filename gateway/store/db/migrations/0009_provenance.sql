-- Each part of a transcript names its origin by a short code. Until now this was said in words, or could only be told
-- from the beginning of the text. Results of tools need no change: without an origin they count as from outside.
WITH codes (words, code) AS (
    VALUES ('what others said in the chat', 'chat'),
           ('what a background process or an earlier request left', 'event'),
           ('a background process', 'event'),
           ('standard input', 'stdin')
), marks (mark, code) AS (
    VALUES ('[Said in this chat meanwhile, but not to you.', 'chat'),
           ('[Background process ', 'event'),
           ('[Nobody had decided in time whether ', 'event')
)
UPDATE messages SET parts = (
    SELECT json_group_array(json(CASE WHEN code IS NULL THEN part ELSE json_set(part, '$.origin', code) END))
      FROM (SELECT value AS part,
                   CASE WHEN json_extract(value, '$.type') <> 'text' THEN NULL
                        WHEN coalesce(json_extract(value, '$.origin'), '') <> ''
                        THEN (SELECT code FROM codes WHERE words = json_extract(value, '$.origin'))
                        ELSE (SELECT code FROM marks
                               WHERE substr(json_extract(value, '$.text'), 1, length(mark)) = mark)
                   END AS code
              FROM json_each(messages.parts) ORDER BY key)
)
WHERE role = 'user'
  AND (parts LIKE '%"origin"%' OR EXISTS (SELECT 1 FROM marks WHERE instr(parts, mark) > 0))
  -- A row that was damaged on the disk stays as it is.
  AND CASE WHEN json_valid(parts) THEN NOT EXISTS (SELECT 1 FROM json_each(parts) WHERE type <> 'object') ELSE 0 END;

-- A system prompt is a list of parts, so that the project's own words in it have an origin, too.
UPDATE sessions SET prompt = (
    SELECT CASE WHEN prompt = '' THEN json_array()
                WHEN place = 0 THEN json_array(json_object('type', 'text', 'text', prompt))
                ELSE json_array(
                    -- Parts are joined by the end of a line: not a byte of the prompt changes.
                    json_object('type', 'text', 'text', CASE WHEN substr(prompt, place - 1, 1) = char(10)
                                                             THEN substr(prompt, 1, place - 2)
                                                             ELSE substr(prompt, 1, place - 1) END),
                    json_object('type', 'text', 'text', substr(prompt, place), 'origin', 'project'))
           END
      FROM (SELECT instr(prompt, '# Project (AGENTS.md)' || char(10)) AS place)
)
WHERE prompt IS NOT NULL;
