(** A checker of certificates, proved: the lines that `titan verify --certificate` writes, for sizes given.

    Each configuration of a certificate is a line: all steps with the numbers of their successors, one step that
    represents all (the first of its line, or one behind it, which may be the only one), or a question about
    a size, with both answers. Whoever translates writes down
    which states stand at which line ([entry]); [accepted] executes the steps with the semantics of
    Sync.v and compares labels, states and numbers. It is extracted. *)

From Coq Require Import Bool ZArith List FMapPositive.
From Titan Require Import Sync SyncClosed.
Import ListNotations.

(** In a label the operations in flight of an agent are numbered from 0, in the order of their issue. *)
Inductive line :=
| All (next : list (step_ * positive))
| One (first : bool) (label : step_) (next : positive)
| Split (next : list positive).

(** A state, its line, and where in the list of entries its successors stand (before it). *)
Record entry := Entry { en_state : state; en_line : positive; en_next : list positive }.

Definition places : Type := PositiveMap.t (state * positive).

Section Certificate.
Variable p : program.
Variable cert : PositiveMap.t line.

Definition place (s : state) (a : nat) (ordinal : Z) : Z :=
  Z.of_nat (length (filter (fun f => (fl_agent f =? a)%nat && (fl_ordinal f <? ordinal)%Z) (flights s))).

Definition label (s : state) (x : step_) : step_ :=
  match x with
  | AgentStep a => AgentStep a
  | FinishStep a n => FinishStep a (place s a n)
  | ReadsStep a n => ReadsStep a (place s a n)
  end.

Definition step_dec (x y : step_) : {x = y} + {x <> y}.
Proof. decided. Defined.
Definition same_step (x y : step_) : bool := if step_dec x y then true else false.

Definition stands (m : places) (k : positive) (s : state) (n : positive) : bool :=
  match PositiveMap.find k m with Some (t, j) => same_state s t && (n =? j)%positive | None => false end.

Fixpoint each_follows (m : places) (s : state) (xs : list step_) (next : list (step_ * positive))
    (ks : list positive) : bool :=
  match xs, next, ks with
  | [], [], [] => true
  | x :: xs, (l, n) :: next, k :: ks =>
    same_step (label s x) l
    && match apply_step p s x with Done t => stands m k t n | _ => false end
    && each_follows m s xs next ks
  | _, _, _ => false
  end.

Definition several {A} (l : list A) : bool := match l with _ :: _ :: _ => true | _ => false end.

Definition valid (m : places) (e : entry) : bool :=
  let s := en_state e in
  match PositiveMap.find (en_line e) cert with
  | Some (All next) =>
    match state_fault p s, steps p s with
    | Done _, Done xs => each_follows m s xs next (en_next e)
    | _, _ => false
    end
  | Some (One first l n) =>
    match state_fault p s, steps p s, en_next e with
    | Done _, Done xs, [k] =>
      (negb first || several xs) && match List.find (fun x => same_step (label s x) l) xs with
      | Some x => match apply_step p s x with Done t => stands m k t n | _ => false end
      | None => false
      end
    | _, _, _ => false
    end
  | Some (Split next) =>
    match en_next e with [k] => existsb (stands m k s) next | _ => false end
  | None => false
  end.

Fixpoint placed (m : places) (i : positive) (es : list entry) : option places :=
  match es with
  | [] => Some m
  | e :: es => if valid m e then placed (PositiveMap.add i (en_state e, en_line e) m) (Pos.succ i) es
               else None
  end.

(** The initial state is entry [k], at one of the lines that the certificate starts with. *)
Definition accepted (es : list entry) (starts : list positive) (k : positive) : bool :=
  match initial p, placed (PositiveMap.empty _) 1 es with
  | Done s, Some m => existsb (stands m k s) starts
  | _, _ => false
  end.

(** ** What it shows *)

(** From the state, every interleaving follows the lines from [n] on, but for what single steps leave out. *)
Inductive holds : state -> positive -> Prop :=
| holds_all s n next xs :
    PositiveMap.find n cert = Some (All next) -> state_fault p s = Done tt -> steps p s = Done xs ->
    map (label s) xs = map fst next ->
    (forall x, In x xs -> exists t, apply_step p s x = Done t) ->
    (forall x j t, In (x, j) (combine xs (map snd next)) -> apply_step p s x = Done t -> holds t j) ->
    holds s n
| holds_one s n f l j xs x t :
    PositiveMap.find n cert = Some (One f l j) -> state_fault p s = Done tt -> steps p s = Done xs ->
    In x xs -> label s x = l -> apply_step p s x = Done t -> holds t j -> holds s n
| holds_split s n next j :
    PositiveMap.find n cert = Some (Split next) -> In j next -> holds s j -> holds s n.

Lemma stands_holds m k s n : (forall i t j, PositiveMap.find i m = Some (t, j) -> holds t j) ->
  stands m k s n = true -> holds s n.
Proof.
  intros I. unfold stands. destruct (PositiveMap.find k m) as [[t j]|] eqn:F; [|easy].
  intros E. apply andb_true_iff in E as [E N]. apply same_state_eq in E. apply Pos.eqb_eq in N.
  subst. now apply I with k.
Qed.

Lemma same_step_eq x y : same_step x y = true -> x = y.
Proof. unfold same_step. now destruct (step_dec x y). Qed.

Lemma each_follows_all m s : (forall i t j, PositiveMap.find i m = Some (t, j) -> holds t j) ->
  forall xs next ks, each_follows m s xs next ks = true ->
  map (label s) xs = map fst next /\
  (forall x, In x xs -> exists t, apply_step p s x = Done t) /\
  (forall x j t, In (x, j) (combine xs (map snd next)) -> apply_step p s x = Done t -> holds t j).
Proof.
  intros I. induction xs as [|x xs IH]; intros [|[l n] next] [|k ks]; cbn [each_follows]; try easy.
  intros E. apply andb_true_iff in E as [E R]. apply andb_true_iff in E as [L S].
  apply same_step_eq in L. destruct (apply_step p s x) as [t| |] eqn:A; try easy.
  destruct (IH next ks R) as (M & D & H). cbn [map fst snd combine]. split; [now rewrite L, M|]. split.
  - intros y [<-|Y]; [now exists t|auto].
  - intros y j u [[= <- <-]|Y] U; [|now apply (H y)]. rewrite A in U. injection U as <-.
    now apply stands_holds with m k.
Qed.

Lemma valid_holds m e : (forall i t j, PositiveMap.find i m = Some (t, j) -> holds t j) ->
  valid m e = true -> holds (en_state e) (en_line e).
Proof.
  intros I. unfold valid. destruct (PositiveMap.find (en_line e) cert) as [[next|f l n|next]|] eqn:F; [| | |easy].
  - destruct (state_fault p (en_state e)) as [[]| |] eqn:G; try easy.
    destruct (steps p (en_state e)) as [xs| |] eqn:S; try easy. intros E.
    destruct (each_follows_all m _ I xs next _ E) as (M & D & H). now apply holds_all with next xs.
  - destruct (state_fault p (en_state e)) as [[]| |] eqn:G; try easy.
    destruct (steps p (en_state e)) as [xs| |] eqn:S; try easy. destruct (en_next e) as [|k [|]]; try easy.
    destruct (negb f || several xs); [|easy]. cbn [andb]. destruct (List.find _ xs) as [x|] eqn:X; [|easy].
    destruct (apply_step p (en_state e) x) as [t| |] eqn:A; try easy. intros E.
    apply List.find_some in X as [X L]. apply same_step_eq in L.
    apply holds_one with f l n xs x t; auto. now apply stands_holds with m k.
  - destruct (en_next e) as [|k [|]]; try easy. intros E. apply existsb_exists in E as (j & J & E).
    apply holds_split with next j; auto. now apply stands_holds with m k.
Qed.

Lemma placed_holds es : forall m i found,
  (forall i t j, PositiveMap.find i m = Some (t, j) -> holds t j) -> placed m i es = Some found ->
  forall i t j, PositiveMap.find i found = Some (t, j) -> holds t j.
Proof.
  induction es as [|e es IH]; intros m i found I; cbn [placed]; [now intros [= <-]|].
  destruct (valid m e) eqn:V; [|easy]. apply IH. intros k t j F.
  destruct (Pos.eq_dec k i) as [->|N].
  - rewrite PositiveMap.gss in F. injection F as <- <-. now apply valid_holds with m.
  - rewrite PositiveMap.gso in F by easy. now apply I with k.
Qed.

(** What is accepted is followed by every interleaving. *)
Theorem certificate_followed es starts k : accepted es starts k = true ->
  exists s n, initial p = Done s /\ In n starts /\ holds s n.
Proof.
  unfold accepted. destruct (initial p) as [s| |]; try easy.
  destruct (placed _ 1 es) as [m|] eqn:P; [|easy]. intros E. apply existsb_exists in E as (n & N & E).
  exists s, n. split; [easy|]. split; [easy|]. apply stands_holds with m k; [|easy].
  apply (placed_holds es (PositiveMap.empty _) 1); [|easy]. intros i t j F. now rewrite PositiveMap.gempty in F.
Qed.

(** A state from which one can be reached that is faulty, stuck, or from which a step is a fault. *)
Definition fails (s : state) : Prop := exists t, run p s t /\ ~ good p t.

(** The one thing that it takes on trust: that what a line calls one step represents all. *)
Definition single_steps_represent_all : Prop := forall n f l j s xs x t,
  PositiveMap.find n cert = Some (One f l j) -> state_fault p s = Done tt -> steps p s = Done xs ->
  In x xs -> label s x = l -> apply_step p s x = Done t -> fails s -> fails t.

Lemma in_first {A B} (x : A) : forall (xs : list A) (ys : list B), length xs = length ys -> In x xs ->
  exists y, In (x, y) (combine xs ys).
Proof.
  induction xs as [|z xs IH]; intros [|y ys]; try easy. intros [= L] [->|X].
  - exists y. now left.
  - destruct (IH ys L X) as [w W]. exists w. now right.
Qed.

Lemma holds_safe : single_steps_represent_all -> forall s n, holds s n -> ~ fails s.
Proof.
  intros R s n H. induction H as [s n next xs F G S M D _ IH|s n f l j xs x t F G S X L A _ IH|s n next j _ _ _ IH].
  - intros (u & U & B). destruct U as [s|s ys x t u Sx Ix Ap U].
    + apply B. split; [easy|]. now exists xs.
    + rewrite S in Sx. injection Sx as <-.
      destruct (in_first x xs (map snd next)) as [j J]; [|easy|].
      { rewrite map_length. apply (f_equal (@length _)) in M. now rewrite !map_length in M. }
      apply (IH x j t J Ap). now exists u.
  - intros C. apply IH. now apply (R n f l j s xs x t).
  - easy.
Qed.

Lemma good_dec s : good p s \/ ~ good p s.
Proof.
  unfold good. destruct (state_fault p s) as [[]| |]; [|right; now intros [? _]..].
  destruct (steps p s) as [xs| |]; [|right; intros (_ & ? & ? & _); discriminate..].
  enough ((forall x, In x xs -> exists t, apply_step p s x = Done t) \/
          ~ (forall x, In x xs -> exists t, apply_step p s x = Done t)) as [G|G].
  - left. split; [easy|]. now exists xs.
  - right. intros (_ & ys & [= <-] & H). now apply G.
  - induction xs as [|x xs IH]; [now left|]. destruct (apply_step p s x) as [t| |] eqn:A.
    + destruct IH as [IH|IH]; [left|right].
      * intros y [<-|Y]; [now exists t|auto].
      * intros H. apply IH. intros y Y. apply H. now right.
    + right. intros H. destruct (H x (or_introl eq_refl)) as [t T]. congruence.
    + right. intros H. destruct (H x (or_introl eq_refl)) as [t T]. congruence.
Qed.

(** No interleaving comes to a race, a deadlock or a step with a fault. *)
Theorem certificate_safe es starts k : accepted es starts k = true -> single_steps_represent_all ->
  forall s t, initial p = Done s -> run p s t -> good p t.
Proof.
  intros E R s t I U. destruct (certificate_followed es starts k E) as (s' & n & I' & _ & H).
  rewrite I in I'. injection I' as <-. destruct (good_dec t) as [G|G]; [easy|].
  destruct (holds_safe R s n H). now exists t.
Qed.

(** So without any trust where the certificate has no single steps. *)
Theorem full_certificate_safe es starts k : accepted es starts k = true ->
  (forall n f l j, PositiveMap.find n cert <> Some (One f l j)) ->
  forall s t, initial p = Done s -> run p s t -> good p t.
Proof. intros E N. apply (certificate_safe es starts k E). intros n f l j s xs x t F. now destruct (N n f l j). Qed.

End Certificate.
