(** Any number of tiles from finitely many states.

    A configuration is a state together with the sizes; steps keep the sizes. What a search stores
    stands for configurations up to bisimulation (numbers shifted, equal agents exchanged). The theorems
    say when a finite, closed set of stored states covers all sizes, with and without partial order
    reduction, and when a shift of numbers is a bisimulation of the expressions of a program. *)

From Coq Require Import Bool ZArith Lia List.
From Titan Require Import Expression.
Import ListNotations.

Section System.

Variable Conf : Type.
Variable step : Conf -> Conf -> Prop.
Variable bad : Conf -> Prop.      (* a fault, or a deadlock *)

Inductive reach : Conf -> Conf -> Prop :=
| reach_here c : reach c c
| reach_on c d e : step c d -> reach d e -> reach c e.

Definition can_fail (c : Conf) := exists d, reach c d /\ bad d.

Lemma can_fail_before c d : step c d -> can_fail d -> can_fail c.
Proof. intros S [e [R B]]. exists e. split; [now apply reach_on with d|easy]. Qed.

Definition simulates (R : Conf -> Conf -> Prop) :=
  forall c d, R c d -> (bad c <-> bad d) /\
    (forall c', step c c' -> exists d', step d d' /\ R c' d') /\
    (forall d', step d d' -> exists c', step c c' /\ R c' d').

Definition bisimilar (c d : Conf) := exists R, simulates R /\ R c d.

Lemma bisimilar_simulates : simulates bisimilar.
Proof.
  intros c d [R [S H]]. destruct (S c d H) as [B [F G]]. split; [easy|]. split.
  - intros c' St. destruct (F c' St) as [d' [Sd Hr]]. exists d'. split; [easy|]. now exists R.
  - intros d' St. destruct (G d' St) as [c' [Sc Hr]]. exists c'. split; [easy|]. now exists R.
Qed.

Lemma bisimilar_sym c d : bisimilar c d -> bisimilar d c.
Proof.
  intros [R [S H]]. exists (fun a b => R b a). split; [|easy]. intros a b Hab.
  destruct (S b a Hab) as [B [F G]]. split; [tauto|]. split.
  - intros a' St. destruct (G a' St) as [b' ?]. now exists b'.
  - intros b' St. destruct (F b' St) as [a' ?]. now exists a'.
Qed.

Lemma bisimilar_trans c d e : bisimilar c d -> bisimilar d e -> bisimilar c e.
Proof.
  intros H1 H2. exists (fun a b => exists m, bisimilar a m /\ bisimilar m b).
  split; [|now exists d]. clear. intros a b [m [H1 H2]].
  destruct (bisimilar_simulates a m H1) as [B1 [F1 G1]].
  destruct (bisimilar_simulates m b H2) as [B2 [F2 G2]]. split; [tauto|]. split.
  - intros a' St. destruct (F1 a' St) as [m' [Sm Hm]]. destruct (F2 m' Sm) as [b' [Sb Hb]].
    exists b'. split; [easy|]. now exists m'.
  - intros b' St. destruct (G2 b' St) as [m' [Sm Hm]]. destruct (G1 m' Sm) as [a' [Sa Ha]].
    exists a'. split; [easy|]. now exists m'.
Qed.

Lemma bisimilar_fail c d : bisimilar c d -> can_fail c -> can_fail d.
Proof.
  intros H [e [R B]]. revert d H. induction R as [c|c c1 e S R IH]; intros d H.
  - exists d. split; [constructor|]. now apply (bisimilar_simulates c d H).
  - destruct (bisimilar_simulates c d H) as [_ [F _]]. destruct (F c1 S) as [d1 [Sd Hd]].
    apply can_fail_before with d1; [easy|]. now apply IH.
Qed.

(** ** T1. A shift is a bisimulation *)

Section Shift.
Variable high : Conf -> Prop.     (* all numbers that are to be lowered are high enough *)
Variable sh : Conf -> Conf.
Hypothesis high_kept : forall c d, high c -> step c d -> high d.
Hypothesis bad_kept : forall c, high c -> (bad c <-> bad (sh c)).
Hypothesis step_down : forall c d, high c -> step c d -> step (sh c) (sh d).
Hypothesis step_up : forall c e, high c -> step (sh c) e -> exists d, step c d /\ e = sh d.

Theorem shift_bisimilar c : high c -> bisimilar c (sh c).
Proof.
  intros H. exists (fun a b => high a /\ b = sh a). split; [|easy]. clear c H.
  intros a b [H ->]. split; [auto|]. split.
  - intros a' S. exists (sh a'). eauto.
  - intros b' S. destruct (step_up a b' H S) as [a' [Sa ->]]. exists a'. eauto.
Qed.
End Shift.

(** The same for an exchange of equal agents: a bijection that keeps faults and steps. *)
Theorem exchange_bisimilar (f g : Conf -> Conf) :
  (forall c, g (f c) = c) -> (forall c, f (g c) = c) -> (forall c, bad c <-> bad (f c)) ->
  (forall c d, step c d <-> step (f c) (f d)) -> forall c, bisimilar c (f c).
Proof.
  intros GF FG HB HS c. exists (fun a b => b = f a). split; [|easy]. intros a b ->.
  split; [auto|]. split.
  - intros a' S. exists (f a'). split; [now apply (proj1 (HS a a'))|easy].
  - intros b' S. exists (g b'). split; [|symmetry; apply FG].
    apply (proj2 (HS a (g b'))). now rewrite FG.
Qed.

(** ** T2. A closed set of stored states covers everything *)

Section Stored.
Variable A : Type.
Variable Q : A -> Prop.
Variable means : A -> Conf -> Prop.
Variable start : Conf -> Prop.

Definition stored (c : Conf) := exists a d, Q a /\ means a d /\ bisimilar c d.

Hypothesis starts_stored : forall c, start c -> stored c.
Hypothesis none_bad : forall a d, Q a -> means a d -> ~ bad d.

Theorem any_number :
  (forall a d d', Q a -> means a d -> step d d' -> stored d') ->
  forall c d, start c -> reach c d -> ~ bad d.
Proof.
  intros closed c d S R. assert (St : stored d).
  { apply starts_stored in S. induction R as [|c c1 e Sc R IH]; [easy|]. apply IH.
    destruct S as (a & m & Ha & Hm & Hb). destruct (bisimilar_simulates _ _ Hb) as [_ [F _]].
    destruct (F c1 Sc) as [m1 [Sm Hm1]].
    destruct (closed a m m1 Ha Hm Sm) as (a' & m' & Ha' & Hm' & Hb'). exists a', m'.
    split; [easy|]. split; [easy|]. now apply bisimilar_trans with m1. }
  destruct St as (a & m & Ha & Hm & Hb). intros B. apply (none_bad a m Ha Hm).
  now apply (bisimilar_simulates _ _ Hb).
Qed.

(** ** T3. The same, with one step followed where it stands for all: no cycle proviso *)

Definition alone (c d : Conf) := step c d /\ (can_fail c -> can_fail d).

(** Runs of given sizes end. *)
Hypothesis ends : well_founded (fun d c => step c d).

Theorem any_number_reduced :
  (forall a d, Q a -> means a d ->
     (forall d', step d d' -> stored d') \/ (exists d', alone d d' /\ stored d')) ->
  forall c, start c -> ~ can_fail c.
Proof.
  intros closed c S. apply starts_stored in S. revert S.
  induction c as [c IH] using (well_founded_induction ends). intros (a & m & Ha & Hm & Hb) F.
  assert (NB : ~ bad c).
  { intros B. apply (none_bad a m Ha Hm). now apply (bisimilar_simulates _ _ Hb). }
  assert (join : forall c1 m1, bisimilar c1 m1 -> stored m1 -> stored c1).
  { intros c1 m1 H (a' & m' & Ha' & Hm' & Hb'). exists a', m'. split; [easy|]. split; [easy|].
    now apply bisimilar_trans with m1. }
  destruct (bisimilar_simulates _ _ Hb) as [_ [Fw Bw]].
  destruct (closed a m Ha Hm) as [full|(m1 & [Sm Hf] & Hs)].
  - destruct F as [e [R B]]. destruct R as [c|c c1 e Sc R]; [easy|].
    destruct (Fw c1 Sc) as [m1 [Sm Hm1]].
    apply (IH c1 Sc); [apply join with m1; auto|now exists e].
  - destruct (Bw m1 Sm) as [c1 [Sc Hc]]. apply (IH c1 Sc); [now apply join with m1|].
    apply bisimilar_fail with m1; [now apply bisimilar_sym|]. apply Hf.
    now apply bisimilar_fail with c.
Qed.

End Stored.

(** ** T4. When one step stands for all *)

Section Labels.
Variable Label : Type.
Variable lstep : Label -> Conf -> Conf -> Prop.
Hypothesis steps_are_labelled : forall c d, step c d <-> exists l, lstep l c d.
Hypothesis deterministic : forall l c d e, lstep l c d -> lstep l c e -> d = e.
Variable t : Label.
Hypothesis is_t : forall l, {l = t} + {l <> t}.

(** Where the others can get while [t] waits. *)
Inductive others : Conf -> Conf -> Prop :=
| others_here c : others c c
| others_on c d e l : l <> t -> lstep l c d -> others d e -> others c e.

Theorem persistent_alone c ct : lstep t c ct ->
  (forall e, others c e -> exists et, lstep t e et /\ (bad e -> can_fail et)) ->
  (forall e f et l, others c e -> l <> t -> lstep l e f -> lstep t e et ->
     exists g, lstep t f g /\ lstep l et g) ->
  alone c ct.
Proof.
  intros St possible commute. split; [apply steps_are_labelled; eauto|]. intros [e [R B]].
  revert ct St possible commute. induction R as [c|c d e S R IH]; intros ct St possible commute.
  - destruct (possible c (others_here c)) as [et [Set_ H]].
    rewrite (deterministic _ _ _ _ St Set_). auto.
  - apply steps_are_labelled in S as [l S]. destruct (is_t l) as [->|n].
    + rewrite (deterministic _ _ _ _ St S). exists e. auto.
    + destruct (commute c d ct l (others_here c) n S St) as [g [G1 G2]].
      apply can_fail_before with g; [apply steps_are_labelled; eauto|].
      apply (IH B g G1).
      * intros x Hx. apply possible. now apply others_on with d l.
      * intros x f et u Hx. apply commute. now apply others_on with d l.
Qed.
End Labels.

End System.

(** ** T5. Degrees: by how much the value of an expression falls when its members fall *)

Open Scope Z_scope.
Open Scope bool_scope.

Section Degrees.
Variable member : nat -> bool.    (* the names whose values are lowered together *)
Variable P : Z.                   (* by so much *)

Definition lowered (env : nat -> Z) : nat -> Z :=
  fun x => env x - (if member x then P else 0).

Definition quotient (d : Z) (r : expression) (whole : bool) : option Z :=
  match r with
  | Constant k => if k =? 0 then None else if d mod k =? 0
                  then Some (if whole then d / k else 0) else None
  | _ => None
  end.

(** The fall of the value, where this can be said of all values. *)
Fixpoint drop (e : expression) : option Z :=
  match e with
  | Constant _ => Some 0
  | Name x => Some (if member x then P else 0)
  | Not e => match drop e with Some 0 => Some 0 | _ => None end
  | Binary o l r =>
      match drop l, drop r with
      | Some a, Some b =>
          match o with
          | Add => Some (a + b)
          | Sub => Some (a - b)
          | Mul => match l, r with
                   | Constant k, _ => Some (k * b)
                   | _, Constant k => Some (a * k)
                   | _, _ => if (a =? 0) && (b =? 0) then Some 0 else None
                   end
          | Div => if b =? 0 then if a =? 0 then Some 0 else quotient a r true else None
          | Mod => if b =? 0 then if a =? 0 then Some 0 else quotient a r false else None
          | Min | Max => if a =? b then Some a else None
          | Lt | Le | Eq | Ne | Ge | Gt => if a =? b then Some 0 else None
          | And | Or => if (a =? 0) && (b =? 0) then Some 0 else None
          end
      | _, _ => None
      end
  end.

Definition falls (d : Z) (before after : option Z) : Prop :=
  after = match before with Some v => Some (v - d) | None => None end.

Lemma falls_zero v : falls 0 v v.
Proof. unfold falls. destruct v; now rewrite ?Z.sub_0_r. Qed.

Lemma divided a d k : k <> 0 -> d mod k = 0 -> (a - d) / k = a / k - d / k /\ (a - d) mod k = a mod k.
Proof.
  intros Hk Hd. assert (E : d = k * (d / k)) by (apply Z.div_exact; auto).
  replace (a - d) with (a + (- (d / k)) * k) by lia.
  rewrite Z.div_add, Z.mod_add by easy. split; lia.
Qed.

Lemma quotient_sound d r whole q env a b : quotient d r whole = Some q -> eval env r = Some b ->
  falls q (apply (if whole then Div else Mod) a b) (apply (if whole then Div else Mod) (a - d) b).
Proof.
  unfold quotient. destruct r as [k| | |]; try easy. intros H E. injection E as <-.
  destruct (Z.eqb_spec k 0); [easy|]. destruct (Z.eqb_spec (d mod k) 0); [|easy].
  injection H as <-. destruct (divided a d k) as [H1 H2]; auto. unfold falls.
  destruct whole; cbn [apply]; destruct (Z.eqb_spec k 0); try easy; [now rewrite H1|].
  now rewrite H2, Z.sub_0_r.
Qed.

Lemma compare_falls o a b d : match o with Lt | Le | Eq | Ne | Ge | Gt => True | _ => False end ->
  falls 0 (apply o a b) (apply o (a - d) (b - d)).
Proof.
  unfold falls. destruct o; intros H; try easy; cbn [apply]; rewrite Z.sub_0_r; f_equal;
    repeat match goal with
    | |- context [Z.ltb ?x ?y] => destruct (Z.ltb_spec x y)
    | |- context [Z.leb ?x ?y] => destruct (Z.leb_spec x y)
    | |- context [Z.eqb ?x ?y] => destruct (Z.eqb_spec x y)
    end; try reflexivity; lia.
Qed.

Definition times (l r : expression) (a b : Z) : option Z :=
  match l, r with
  | Constant k, _ => Some (k * b)
  | _, Constant k => Some (a * k)
  | _, _ => if (a =? 0) && (b =? 0) then Some 0 else None
  end.

Lemma times_falls l r env a b x y d : eval env l = Some x -> eval env r = Some y ->
  eval (lowered env) l = Some (x - a) -> eval (lowered env) r = Some (y - b) ->
  times l r a b = Some d -> falls d (apply Mul x y) (apply Mul (x - a) (y - b)).
Proof.
  intros El Er El' Er' H. unfold falls. cbn [apply]. f_equal.
  assert (G : (if (a =? 0) && (b =? 0) then Some 0 else None) = Some d -> (x - a) * (y - b) = x * y - d).
  { destruct (Z.eqb_spec a 0) as [->|]; [|easy]. destruct (Z.eqb_spec b 0) as [->|]; [|easy].
    intros [= <-]. lia. }
  destruct l as [k| | |]; cbn [times] in H.
  - cbn in El, El'. injection El as <-. injection El' as E. injection H as <-. nia.
  - destruct r as [k| | |]; auto. cbn in Er, Er'. injection Er as <-. injection Er' as E.
    injection H as <-. nia.
  - destruct r as [k| | |]; auto. cbn in Er, Er'. injection Er as <-. injection Er' as E.
    injection H as <-. nia.
  - destruct r as [k| | |]; auto. cbn in Er, Er'. injection Er as <-. injection Er' as E.
    injection H as <-. nia.
Qed.

Lemma connective o : o = And \/ o = Or \/ forall a, decided o a = None.
Proof. destruct o; auto. Qed.

Theorem drop_sound e d env : drop e = Some d -> falls d (eval env e) (eval (lowered env) e).
Proof.
  revert d. induction e as [v|x|e IH|o l IHl r IHr]; intros d; cbn [drop eval].
  - intros [= <-]. unfold falls. now rewrite Z.sub_0_r.
  - intros [= <-]. reflexivity.
  - destruct (drop e) as [[| |]|]; try easy. intros [= <-]. specialize (IH 0 eq_refl).
    unfold falls in *. rewrite IH. destruct (eval env e) as [a|]; [|easy]. now rewrite !Z.sub_0_r.
  - destruct (drop l) as [a|] eqn:Dl; [|easy]. destruct (drop r) as [b|] eqn:Dr; [|easy].
    specialize (IHl a eq_refl). specialize (IHr b eq_refl). unfold falls in IHl, IHr.
    intros H. rewrite IHl. destruct (eval env l) as [x|] eqn:El; [|easy].
    rewrite IHr. destruct (connective o) as [->|[->|N]].
    + destruct (Z.eqb_spec a 0) as [->|]; [|easy]. destruct (Z.eqb_spec b 0) as [->|]; [|easy].
      injection H as <-. rewrite Z.sub_0_r. destruct (decided And x);
        [unfold falls; now rewrite Z.sub_0_r|].
      destruct (eval env r) as [y|]; [|easy].
      rewrite ?Z.sub_0_r. apply falls_zero.
    + destruct (Z.eqb_spec a 0) as [->|]; [|easy]. destruct (Z.eqb_spec b 0) as [->|]; [|easy].
      injection H as <-. rewrite Z.sub_0_r. destruct (decided Or x);
        [unfold falls; now rewrite Z.sub_0_r|].
      destruct (eval env r) as [y|]; [|easy].
      rewrite ?Z.sub_0_r. apply falls_zero.
    + rewrite !N. destruct (eval env r) as [y|] eqn:Er; [|easy].
      destruct o; try (specialize (N 1); easy); try (specialize (N 0); easy).
      * injection H as <-. unfold falls. cbn [apply]. f_equal. lia.
      * injection H as <-. unfold falls. cbn [apply]. f_equal. lia.
      * now apply times_falls with l r env.
      * destruct (Z.eqb_spec b 0) as [->|]; [|easy]. rewrite Z.sub_0_r.
        destruct (Z.eqb_spec a 0) as [->|].
        -- injection H as <-. rewrite ?Z.sub_0_r. apply falls_zero.
        -- now apply (quotient_sound a r true d env x y).
      * destruct (Z.eqb_spec b 0) as [->|]; [|easy]. rewrite Z.sub_0_r.
        destruct (Z.eqb_spec a 0) as [->|].
        -- injection H as <-. rewrite ?Z.sub_0_r. apply falls_zero.
        -- now apply (quotient_sound a r false d env x y).
      * destruct (Z.eqb_spec a b) as [->|]; [|easy]. injection H as <-. unfold falls. cbn. f_equal. lia.
      * destruct (Z.eqb_spec a b) as [->|]; [|easy]. injection H as <-. unfold falls. cbn. f_equal. lia.
      * destruct (Z.eqb_spec a b) as [->|]; [|easy]; injection H as <-; now apply compare_falls.
      * destruct (Z.eqb_spec a b) as [->|]; [|easy]; injection H as <-; now apply compare_falls.
      * destruct (Z.eqb_spec a b) as [->|]; [|easy]; injection H as <-; now apply compare_falls.
      * destruct (Z.eqb_spec a b) as [->|]; [|easy]; injection H as <-; now apply compare_falls.
      * destruct (Z.eqb_spec a b) as [->|]; [|easy]; injection H as <-; now apply compare_falls.
      * destruct (Z.eqb_spec a b) as [->|]; [|easy]; injection H as <-; now apply compare_falls.
Qed.

(** An index or a guard that does not fall keeps its value; a phase that falls by an even number, its
    parity. *)
Theorem drop_zero e env : drop e = Some 0 -> eval (lowered env) e = eval env e.
Proof.
  intros H. pose proof (drop_sound e 0 env H) as F. unfold falls in F. rewrite F.
  destruct (eval env e); [now rewrite Z.sub_0_r|easy].
Qed.

Theorem drop_even e d env v : drop e = Some d -> d mod 2 = 0 -> eval env e = Some v ->
  exists w, eval (lowered env) e = Some w /\ w mod 2 = v mod 2.
Proof.
  intros H E Hv. pose proof (drop_sound e d env H) as F. unfold falls in F. rewrite Hv in F.
  exists (v - d). split; [easy|]. now apply divided.
Qed.

End Degrees.

(** ** Comparisons of numbers that fall by different amounts: settled beyond a threshold *)

Fixpoint weighted (terms : list (Z * Z)) : Z :=
  match terms with [] => 0 | (factor, value) :: rest => factor * value + weighted rest end.

Fixpoint factors (terms : list (Z * Z)) : Z :=
  match terms with [] => 0 | (factor, _) :: rest => factor + factors rest end.

(** Where the difference of two sides is a sum of members with factors of one sign and a bounded rest,
    its sign is the same for all members from [K] on. *)
Theorem settled K terms rest low :
  (forall factor value, In (factor, value) terms -> 0 <= factor /\ K <= value) ->
  low <= rest -> 0 < factors terms * K + low -> 0 < weighted terms + rest.
Proof.
  intros H L. enough (factors terms * K <= weighted terms) by lia. clear L.
  induction terms as [|[f v] terms IH]; cbn [factors weighted]; [lia|].
  pose proof (H f v (or_introl eq_refl)). specialize (IH (fun f v i => H f v (or_intror i))). nia.
Qed.
