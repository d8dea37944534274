CREATE TABLE t (g TEXT, x INT, d DATE);
CREATE VIEW v AS SELECT g, MIN(x) AS lo, MAX(x) AS hi, MAX(d) AS last, MIN(g) AS same FROM t GROUP BY g;
--! +t('a',1,'2024-01-01') +t('a',1,'2024-01-01') +t('a',3,NULL) +t('b',NULL,NULL)
--= (a, 1, 3, 2024-01-01, a) (b, NULL, NULL, NULL, b)
--! -t('a',1,'2024-01-01') -t('a',3,NULL)
--= (a, 1, 1, 2024-01-01, a) (b, NULL, NULL, NULL, b)
--! -t('a',1,'2024-01-01') +t('b',5,'1969-12-31')
--= (b, 5, 5, 1969-12-31, b)
