CREATE TABLE t (g INT, x INT, y TEXT);
CREATE VIEW v AS SELECT DISTINCT ON (g) g, x, y FROM t ORDER BY g, x DESC NULLS LAST, y;
--! +t(1,5,'b') +t(1,5,'a') +t(2,NULL,'c') +t(NULL,1,'d')
--= (1, 5, a) (2, NULL, c) (NULL, 1, d)
--! -t(1,5,'a') -t(2,NULL,'c')
--= (1, 5, b) (NULL, 1, d)
--! -t(1,5,'b') +t(2,3,'e') +t(2,NULL,'z')
--= (2, 3, e) (NULL, 1, d)
