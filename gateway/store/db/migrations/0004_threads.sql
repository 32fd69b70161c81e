-- The channel around a thread, where threads have ids of their own: what is allowed there is allowed in its threads.
ALTER TABLE inbox ADD COLUMN within TEXT NOT NULL DEFAULT '';
