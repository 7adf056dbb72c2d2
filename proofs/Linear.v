(** Numbers of which only a part is known: a value and multiples of unknowns, each any number from 0 on.

    The checker of certificates computes with them (titan/proof/open_sizes.py): one run of the interpreter
    is a run for each value of the unknowns, because what it computes is right for each. Where the answer
    is not the same for all there is none. *)

From Coq Require Import Bool ZArith Lia List.
From Titan Require Import Expression.
Import ListNotations.
Open Scope Z_scope.
Open Scope bool_scope.

Record linear := Linear { known : Z; terms : list (nat * Z) }.   (* an unknown, and its factor *)

Fixpoint sum (u : nat -> Z) (l : list (nat * Z)) : Z :=
  match l with [] => 0 | (x, f) :: l => f * u x + sum u l end.

(** The number for some values of the unknowns. *)
Definition value_at (u : nat -> Z) (a : linear) : Z := known a + sum u (terms a).

(** *** Sums and multiples *)

Fixpoint plus_term (x : nat) (f : Z) (l : list (nat * Z)) : list (nat * Z) :=
  match l with
  | [] => if f =? 0 then [] else [(x, f)]
  | (y, g) :: l => if (x =? y)%nat then if f + g =? 0 then l else (x, f + g) :: l
                   else (y, g) :: plus_term x f l
  end.

Definition plus (a b : linear) : linear :=
  Linear (known a + known b) (fold_right (fun t l => plus_term (fst t) (snd t) l) (terms a) (terms b)).

Definition scaled (k : Z) (a : linear) : linear :=
  if k =? 0 then Linear 0 [] else Linear (k * known a) (map (fun t => (fst t, k * snd t)) (terms a)).

Definition minus (a b : linear) : linear := plus a (scaled (-1) b).

Definition plain (a : linear) : option Z := match terms a with [] => Some (known a) | _ => None end.

Definition product (a b : linear) : option linear :=
  match plain a, plain b with
  | Some k, _ => Some (scaled k b)
  | _, Some k => Some (scaled k a)
  | _, _ => None
  end.

(** *** Quotients: by a number that divides every factor *)

Definition divided (a b : linear) (whole : bool) : option linear :=
  match plain b with
  | Some k =>
    if (k =? 0) || negb (forallb (fun t => snd t mod k =? 0) (terms a)) then None
    else if whole then Some (Linear (known a / k) (map (fun t => (fst t, snd t / k)) (terms a)))
    else Some (Linear (known a mod k) [])
  | None => None
  end.

(** *** Comparisons: of one answer for all unknowns *)

Definition negative (a : linear) : option bool :=
  if (known a <? 0) && forallb (fun t => snd t <=? 0) (terms a) then Some true
  else if (0 <=? known a) && forallb (fun t => 0 <=? snd t) (terms a) then Some false
  else None.

Definition less (a b : linear) : option bool := negative (minus a b).
Definition at_most (a b : linear) : option bool := negative (minus (minus a b) (Linear 1 [])).

Definition same (a b : linear) : option bool :=
  match at_most a b, at_most b a with
  | Some true, Some true => Some true
  | Some false, _ | _, Some false => Some false
  | _, _ => None
  end.

Definition number (b : bool) : linear := Linear (truth b) [].

Definition operated (o : operator) (a b : linear) : option linear :=
  match o with
  | Add => Some (plus a b)
  | Sub => Some (minus a b)
  | Mul => product a b
  | Div => divided a b true
  | Mod => divided a b false
  | Min => option_map (fun c : bool => if c then a else b) (at_most a b)
  | Max => option_map (fun c : bool => if c then b else a) (at_most a b)
  | Lt => option_map number (less a b)
  | Le => option_map number (at_most a b)
  | Eq => option_map number (same a b)
  | Ne => option_map (fun c => number (negb c)) (same a b)
  | Ge => option_map number (at_most b a)
  | Gt => option_map number (less b a)
  | And | Or => None
  end.

Definition is_zero (a : linear) : option bool := same a (Linear 0 []).

Fixpoint computed (env : nat -> linear) (e : expression) : option linear :=
  match e with
  | Constant v => Some (Linear v [])
  | Name x => Some (env x)
  | Not e => match computed env e with Some a => option_map number (is_zero a) | None => None end
  | Binary o l r =>
    match computed env l with
    | None => None
    | Some a =>
      match o with
      | And | Or =>
        match is_zero a with
        | None => None
        | Some z =>
          if match o with And => z | _ => negb z end then Some (number (negb z))
          else match computed env r with
               | Some b => option_map (fun y => number (negb y)) (is_zero b)
               | None => None
               end
        end
      | _ => match computed env r with Some b => operated o a b | None => None end
      end
    end
  end.

(** *** Each is right for all unknowns *)

Section Values.
Variable u : nat -> Z.
Hypothesis from_zero : forall x, 0 <= u x.

Lemma sum_plus_term x f l : sum u (plus_term x f l) = f * u x + sum u l.
Proof.
  induction l as [|[y g] l IH]; cbn [plus_term sum].
  - destruct (Z.eqb_spec f 0); cbn [sum]; lia.
  - destruct (Nat.eqb_spec x y) as [->|]; [|cbn [sum]; lia].
    destruct (Z.eqb_spec (f + g) 0); cbn [sum]; nia.
Qed.

Lemma value_plus a b : value_at u (plus a b) = value_at u a + value_at u b.
Proof.
  unfold value_at, plus. cbn [known terms].
  enough (sum u (fold_right (fun t l => plus_term (fst t) (snd t) l) (terms a) (terms b))
          = sum u (terms a) + sum u (terms b)) by lia.
  induction (terms b) as [|[x f] l IH]; cbn [fold_right sum fst snd]; [lia|].
  rewrite sum_plus_term. lia.
Qed.

Lemma value_scaled k a : value_at u (scaled k a) = k * value_at u a.
Proof.
  unfold value_at, scaled. destruct (Z.eqb_spec k 0) as [->|]; cbn [known terms sum]; [lia|].
  enough (sum u (map (fun t => (fst t, k * snd t)) (terms a)) = k * sum u (terms a)) by lia.
  induction (terms a) as [|[x f] l IH]; cbn [map sum fst snd]; lia.
Qed.

Lemma value_minus a b : value_at u (minus a b) = value_at u a - value_at u b.
Proof. unfold minus. rewrite value_plus, value_scaled. lia. Qed.

Lemma value_plain a k : plain a = Some k -> value_at u a = k.
Proof. unfold plain, value_at. destruct (terms a); [|easy]. intros [= <-]. cbn. lia. Qed.

Lemma value_product a b c : product a b = Some c -> value_at u c = value_at u a * value_at u b.
Proof.
  unfold product. destruct (plain a) as [k|] eqn:A.
  - intros [= <-]. now rewrite value_scaled, (value_plain _ _ A).
  - destruct (plain b) as [k|] eqn:B; [|easy]. intros [= <-].
    rewrite value_scaled, (value_plain _ _ B). lia.
Qed.

Lemma sum_divided k l : k <> 0 -> forallb (fun t => snd t mod k =? 0) l = true ->
  sum u l = sum u (map (fun t : nat * Z => (fst t, snd t / k)) l) * k.
Proof.
  intros K. induction l as [|[x f] l IH]; cbn [forallb map sum fst snd]; [lia|].
  intros H. apply andb_true_iff in H as [D H]. apply Z.eqb_eq, Z.div_exact in D; [|easy].
  specialize (IH H). nia.
Qed.

Lemma value_divided a b whole c : divided a b whole = Some c ->
  apply (if whole then Div else Mod) (value_at u a) (value_at u b) = Some (value_at u c).
Proof.
  unfold divided. destruct (plain b) as [k|] eqn:B; [|easy]. rewrite (value_plain _ _ B).
  destruct (Z.eqb_spec k 0) as [|K]; [easy|]. cbn [orb].
  destruct (forallb _ (terms a)) eqn:F; [|easy]. cbn [negb]. apply sum_divided in F; [|easy].
  destruct whole; intros [= <-]; cbn [apply]; (destruct (Z.eqb_spec k 0); [easy|]);
    unfold value_at; cbn [known terms sum]; rewrite F.
  - now rewrite Z.div_add.
  - now rewrite Z.mod_add, Z.add_0_r.
Qed.

Lemma sum_low l : forallb (fun t : nat * Z => snd t <=? 0) l = true -> sum u l <= 0.
Proof.
  induction l as [|[x f] l IH]; cbn [forallb sum snd]; [lia|]. intros H.
  apply andb_true_iff in H as [L H]. apply Z.leb_le in L. specialize (IH H).
  pose proof (from_zero x). nia.
Qed.

Lemma sum_high l : forallb (fun t : nat * Z => 0 <=? snd t) l = true -> 0 <= sum u l.
Proof.
  induction l as [|[x f] l IH]; cbn [forallb sum snd]; [lia|]. intros H.
  apply andb_true_iff in H as [L H]. apply Z.leb_le in L. specialize (IH H).
  pose proof (from_zero x). nia.
Qed.

Lemma value_negative a c : negative a = Some c -> (value_at u a <? 0) = c.
Proof.
  unfold negative, value_at. destruct (Z.ltb_spec (known a) 0) as [N|N]; cbn [andb].
  - destruct (forallb _ (terms a)) eqn:F.
    + intros [= <-]. apply sum_low in F. apply Z.ltb_lt. lia.
    + destruct (Z.leb_spec 0 (known a)); [lia|easy].
  - destruct (Z.leb_spec 0 (known a)); [|easy]. cbn [andb].
    destruct (forallb _ (terms a)) eqn:F; [|easy]. intros [= <-]. apply sum_high in F.
    apply Z.ltb_ge. lia.
Qed.

Lemma value_less a b c : less a b = Some c -> (value_at u a <? value_at u b) = c.
Proof.
  intros H. apply value_negative in H. rewrite value_minus in H. rewrite <- H.
  destruct (Z.ltb_spec (value_at u a) (value_at u b)); symmetry; [apply Z.ltb_lt|apply Z.ltb_ge]; lia.
Qed.

Lemma value_at_most a b c : at_most a b = Some c -> (value_at u a <=? value_at u b) = c.
Proof.
  intros H. apply value_negative in H. rewrite !value_minus in H. rewrite <- H.
  unfold value_at at 5. cbn [known terms sum].
  destruct (Z.leb_spec (value_at u a) (value_at u b)); symmetry; [apply Z.ltb_lt|apply Z.ltb_ge]; lia.
Qed.

Lemma value_same a b c : same a b = Some c -> (value_at u a =? value_at u b) = c.
Proof.
  unfold same. destruct (at_most a b) as [x|] eqn:A; destruct (at_most b a) as [y|] eqn:B;
    try apply value_at_most in A; try apply value_at_most in B;
    try destruct x; try destruct y; intros [= <-];
    repeat match goal with
    | H : (_ <=? _) = true |- _ => apply Z.leb_le in H
    | H : (_ <=? _) = false |- _ => apply Z.leb_gt in H
    end; (apply Z.eqb_eq || apply Z.eqb_neq); lia.
Qed.

Lemma value_number c : value_at u (number c) = truth c.
Proof. unfold value_at, number. cbn. lia. Qed.

Lemma value_operated o a b c : operated o a b = Some c ->
  apply o (value_at u a) (value_at u b) = Some (value_at u c).
Proof.
  destruct o; cbn [operated apply].
  - intros [= <-]. now rewrite value_plus.
  - intros [= <-]. now rewrite value_minus.
  - intros H. now rewrite (value_product _ _ _ H).
  - apply (value_divided a b true).
  - apply (value_divided a b false).
  - destruct (at_most a b) as [x|] eqn:A; [|easy]. apply value_at_most in A.
    destruct x; intros [= <-]; [apply Z.leb_le in A|apply Z.leb_gt in A]; f_equal; lia.
  - destruct (at_most a b) as [x|] eqn:A; [|easy]. apply value_at_most in A.
    destruct x; intros [= <-]; [apply Z.leb_le in A|apply Z.leb_gt in A]; f_equal; lia.
  - destruct (less a b) as [x|] eqn:A; [|easy]. apply value_less in A. intros [= <-].
    now rewrite value_number, A.
  - destruct (at_most a b) as [x|] eqn:A; [|easy]. apply value_at_most in A. intros [= <-].
    now rewrite value_number, A.
  - destruct (same a b) as [x|] eqn:A; [|easy]. apply value_same in A. intros [= <-].
    now rewrite value_number, A.
  - destruct (same a b) as [x|] eqn:A; [|easy]. apply value_same in A. intros [= <-].
    now rewrite value_number, A.
  - destruct (at_most b a) as [x|] eqn:A; [|easy]. apply value_at_most in A. intros [= <-].
    now rewrite value_number, A.
  - destruct (less b a) as [x|] eqn:A; [|easy]. apply value_less in A. intros [= <-].
    now rewrite value_number, A.
  - easy.
  - easy.
Qed.

Lemma value_is_zero a c : is_zero a = Some c -> (value_at u a =? 0) = c.
Proof. apply (value_same a (Linear 0 [])). Qed.

(** What is computed with open numbers is what the expression is, for all values of the unknowns. *)
Theorem linear_sound env e a : computed env e = Some a ->
  eval (fun x => value_at u (env x)) e = Some (value_at u a).
Proof.
  revert a. induction e as [v|x|e IH|o l IHl r IHr]; intros c; cbn [computed eval].
  - intros [= <-]. unfold value_at. cbn. f_equal. lia.
  - now intros [= <-].
  - destruct (computed env e) as [a|]; [|easy]. rewrite (IH a eq_refl).
    destruct (is_zero a) as [z|] eqn:Z; [|easy]. intros [= <-]. apply value_is_zero in Z.
    now rewrite value_number, Z.
  - destruct (computed env l) as [a|]; [|easy]. rewrite (IHl a eq_refl).
    destruct o; cbn [decided];
      try (destruct (computed env r) as [b|]; [|easy]; rewrite (IHr b eq_refl); apply value_operated).
    + destruct (is_zero a) as [z|] eqn:Z; [|easy]. apply value_is_zero in Z. rewrite Z.
      destruct z; [intros [= <-]; now rewrite value_number|].
      destruct (computed env r) as [b|]; [|easy]. rewrite (IHr b eq_refl).
      destruct (is_zero b) as [y|] eqn:Y; [|easy]. apply value_is_zero in Y. intros [= <-].
      cbn [apply]. now rewrite value_number, Z, Y.
    + destruct (is_zero a) as [z|] eqn:Z; [|easy]. apply value_is_zero in Z. rewrite Z.
      destruct z; cbn [negb]; [|intros [= <-]; now rewrite value_number].
      destruct (computed env r) as [b|]; [|easy]. rewrite (IHr b eq_refl).
      destruct (is_zero b) as [y|] eqn:Y; [|easy]. apply value_is_zero in Y. intros [= <-].
      cbn [apply]. now rewrite value_number, Z, Y.
Qed.

End Values.
