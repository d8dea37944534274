-- A row that an expression fails for is left out and named, each copy; once right it is there.
CREATE TABLE t (k INT, a BIGINT, b BIGINT, s TEXT);
CREATE VIEW v AS SELECT k, a / b AS q, a + b AS p, CAST(s AS INT) AS i FROM t WHERE b <> 5 AND 10 / b < 100;
--! +t(1,6,3,'7') +t(2,6,0,'7') +t(2,6,0,'7') +t(3,9223372036854775807,1,'1') +t(4,1,1,'x') +t(5,1,5,'x')
--= (1, 2, 9, 7)
--= error: Divide by zero
--= error: Overflow
--= error: Cannot cast string 'x'
--! -t(2,6,0,'7') -t(2,6,0,'7') +t(2,6,2,'7') -t(3,9223372036854775807,1,'1') -t(4,1,1,'x') +t(4,1,1,'8')
--= (1, 2, 9, 7) (2, 3, 8, 7) (4, 1, 2, 8)
