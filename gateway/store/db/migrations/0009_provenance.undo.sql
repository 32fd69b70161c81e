WITH codes (code, words) AS (
    VALUES ('chat', 'what others said in the chat'),
           ('event', 'what a background process or an earlier request left'),
           ('stdin', 'standard input')
)
UPDATE messages SET parts = (
    SELECT json_group_array(json(CASE WHEN origin = 'hermes' THEN json_remove(part, '$.origin')
                                      WHEN words IS NULL THEN part
                                      ELSE json_set(part, '$.origin', words) END))
      FROM (SELECT value AS part, json_extract(value, '$.origin') AS origin,
                   (SELECT words FROM codes WHERE code = json_extract(value, '$.origin')) AS words
              FROM json_each(messages.parts) ORDER BY key)
)
WHERE role = 'user' AND parts LIKE '%"origin"%'
  AND CASE WHEN json_valid(parts) THEN NOT EXISTS (SELECT 1 FROM json_each(parts) WHERE type <> 'object') ELSE 0 END;

UPDATE sessions SET prompt = coalesce((
    SELECT group_concat(text, char(10))
      FROM (SELECT json_extract(value, '$.text') AS text FROM json_each(sessions.prompt) ORDER BY key)
), '')
WHERE CASE WHEN json_valid(prompt)
           THEN json_type(prompt) = 'array' AND NOT EXISTS (SELECT 1 FROM json_each(prompt) WHERE type <> 'object')
           ELSE 0 END;
