-- The first rows so far are enough where rows only come. Rows that the order leaves equal are told apart by their other
-- columns, in one step and over several; copies have numbers of their own.
CREATE TABLE t (g INT, x INT, y TEXT);
CREATE VIEW v AS SELECT g, x, y, rn FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY g ORDER BY x) AS rn FROM t) AS r WHERE rn <= 2;
--! +t(1,5,'d') +t(1,5,'c') +t(1,5,'b') +t(1,4,'z') +t(2,1,'a') +t(2,1,'a') +t(2,1,'a')
--= (1, 4, z, 1) (1, 5, b, 2) (2, 1, a, 1) (2, 1, a, 2)
--! +t(1,5,'a') +t(2,0,'q') +t(3,1,'x')
--= (1, 4, z, 1) (1, 5, a, 2) (2, 0, q, 1) (2, 1, a, 2) (3, 1, x, 1)
--! +t(1,9,'a') +t(3,1,'x')
--= (1, 4, z, 1) (1, 5, a, 2) (2, 0, q, 1) (2, 1, a, 2) (3, 1, x, 1) (3, 1, x, 2)
