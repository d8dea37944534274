-- What keeps nothing: branches of one relation and of two, a row in several of them, views over views, a guard, a row
-- that fails in one branch alone, and one zero.
CREATE TABLE t (id BIGINT, kind TEXT, n BIGINT, x DOUBLE);
CREATE TABLE u (id BIGINT, n BIGINT);
CREATE VIEW small AS SELECT id, kind, n FROM t WHERE n < 100;
CREATE VIEW v AS SELECT id, 'small ' || kind AS what, 1000 / n AS n FROM small WHERE kind <> 'skip'
  UNION ALL SELECT id, 'zero', n FROM t WHERE x = 0.0
  UNION ALL SELECT id, 'other', n FROM u WHERE n <> 0 AND 100 / n > 9;
--! +t(1,'a',10,1.5) +t(2,'skip',0,-0.0) +t(3,NULL,5,0.0) +u(4,10) +u(5,0)
--= (1, small a, 100) (2, zero, 0) (3, zero, 5) (4, other, 10)
--! +t(6,'b',0,7.0) +t(7,'c',500,0.0) +u(8,50) +u(4,10)
--= (1, small a, 100) (2, zero, 0) (3, zero, 5) (4, other, 10) x2 (7, zero, 500)
--= error: ivide by zero
--! -t(6,'b',0,7.0) -u(4,10)
--= (1, small a, 100) (2, zero, 0) (3, zero, 5) (4, other, 10) (7, zero, 500)
