-- S05, risingwave#16045; apache/flink#23699 (FLINK-33524): interval join: boundary rows, late rows and cleaned state disagree.
CREATE TABLE l (id int,k int,ts int);
CREATE TABLE r (id int,k int,ts int);
CREATE VIEW v AS select l.id li,r.id ri from l left join r on l.k=r.k and r.ts between l.ts-10 and l.ts+10;
--! +l(1,1,100) +r(1,1,90) +r(2,1,111)
--= (1, 1)
--! +r(3,1,110) -r(1,1,90)
--= (1, 3)
--! -r(3,1,110)
--= (1, NULL)
--! +l(2,NULL,100) +r(4,NULL,100)
--= (1, NULL) (2, NULL)
