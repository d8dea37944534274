-- NOT around NOT IN: what is NULL inside stays NULL and excludes the row; it was kept.
CREATE TABLE a (k INT);
CREATE TABLE b (k INT);
CREATE VIEW v AS SELECT k FROM a WHERE NOT (k NOT IN (SELECT k FROM b)) AND NOT (k = 7 OR k NOT IN (SELECT k FROM b WHERE b.k IS NOT NULL));
--! +a(0) +a(1) +a(NULL) +b(NULL) +b(1)
--= (1)
--! -b(1)
--= empty
--! -b(NULL) +b(0) +b(NULL)
--= (0)
